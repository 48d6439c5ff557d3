/* Addresses to listen on: text to listening sockets, and back.
 *
 *     "127.0.0.1:8080"  "[::1]:8080"  "localhost:8080"  "unix:/run/sluice.sock"
 *     ":8080" or "*:8080"  every address, IPv6 and IPv4
 *
 * Every failure is one sentence that names the address. */
#ifndef SL_SERVER_LISTENER_H
#define SL_SERVER_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct sl_listener {
    char text[140]; /* as bound, once sl_listener_bind was called: a port 0 is replaced by the real one */
    bool is_unix;
    bool loopback; /* TCP on 127.0.0.0/8 or ::1 */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int first_fd; /* the first listening socket, -1 when taken by sl_listener_socket or not bound */
    int unix_fd;  /* unix only: the one socket that all loops share, -1 when not bound */
    dev_t dev;    /* of the unix path, so that only our own is removed */
    ino_t ino;
};

/* Reads the text and resolves a host name. Returns 0, or SL_EINVALID with a sentence. */
int sl_listener_parse(const char *text, struct sl_listener *ret_listener, char *ret_why, size_t why_size);

/* Binds and listens. A TCP address on which somebody already listens is refused even if that somebody shares it
 * (SO_REUSEPORT). A unix path that refuses connections is taken over; unix_mode are its permission bits. Returns 0, or
 * SL_EIO with a sentence. */
int sl_listener_bind(struct sl_listener *listener, unsigned unix_mode, char *ret_why, size_t why_size);

/* One listening, non-blocking socket for one loop: the caller closes it. Returns it, or -1 with a sentence. */
int sl_listener_socket(struct sl_listener *listener, char *ret_why, size_t why_size);

/* Closes what is left and removes the unix path if it is still ours. */
void sl_listener_fini(struct sl_listener *listener);

#endif
