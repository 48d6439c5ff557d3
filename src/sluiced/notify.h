/* Tells a service manager how we are (sd_notify(3)): a datagram to $NOTIFY_SOCKET, nothing where that is not set. */
#ifndef SL_SLUICED_NOTIFY_H
#define SL_SLUICED_NOTIFY_H

/* `state` is "READY=1", "STOPPING=1" and the like. */
void sl_notify(const char *state);

#endif
