#include "store/conn.h"

#include <stdio.h>
#include <string.h>

static void add_step(struct sl_conn *conn, enum sl_greeting step)
{
    conn->steps[conn->n_steps++] = step;
}

static void write_auth(struct sl_conn *conn)
{
    const struct sl_login *login = conn->config.login;
    struct sl_word words[3] = {SL_WORD("AUTH")};
    size_t n = 1;

    if (login->has_user)
        words[n++] = (struct sl_word){login->user, strlen(login->user)};
    words[n++] = (struct sl_word){login->password, login->password_len};
    sl_out_command(&conn->out, words, n);
    add_step(conn, SL_GREET_AUTH);
}

static void write_select(struct sl_conn *conn)
{
    char db[16];
    int len = snprintf(db, sizeof db, "%u", conn->config.db);

    sl_out_command(&conn->out, (struct sl_word[]){SL_WORD("SELECT"), {db, (size_t)len}}, 2);
    add_step(conn, SL_GREET_SELECT);
}

void sl_greet_write(struct sl_conn *conn)
{
    const struct sl_conn_config *config = &conn->config;

    conn->n_steps = conn->step = 0;
    if (config->login && (config->login->has_user || config->login->has_password))
        write_auth(conn);
    if (config->db)
        write_select(conn);
    if (config->want_master) {
        sl_out_command(&conn->out, &SL_WORD("ROLE"), 1);
        add_step(conn, SL_GREET_ROLE);
    }
    if (config->module_command) {
        struct sl_word name = {config->module_command, strlen(config->module_command)};

        sl_out_command(&conn->out, (struct sl_word[]){SL_WORD("COMMAND"), SL_WORD("INFO"), name}, 3);
        add_step(conn, SL_GREET_MODULE);
    } else {
        sl_out_command(&conn->out, &SL_WORD("PING"), 1);
        add_step(conn, SL_GREET_PING);
    }
}

static enum sl_result refused(struct sl_conn *conn, const char *command, const struct sl_reply *reply,
                              enum sl_result otherwise)
{
    enum sl_result result = otherwise;

    if (reply->type == SL_REPLY_ERROR) {
        result = sl_result_of_error(reply->text, reply->n);
        if (result == SL_RESULT_ERROR)
            result = otherwise;
    }
    snprintf(conn->why, sizeof conn->why, "%s was refused: %.120s", command,
             reply->type == SL_REPLY_ERROR ? reply->text : "an answer of an unexpected kind");
    return result;
}

static enum sl_result take_role(struct sl_conn *conn, const struct sl_reply *reply)
{
    if (reply->type == SL_REPLY_ERROR) /* a user who may not ask; READONLY will tell */
        return sl_result_of_error(reply->text, reply->n) == SL_RESULT_NOAUTH
                   ? refused(conn, "ROLE", reply, SL_RESULT_NOAUTH)
                   : SL_RESULT_OK;
    if (sl_reply_is_array(reply, 1) && sl_reply_is(reply->elements[0], "master"))
        return SL_RESULT_OK;
    snprintf(conn->why, sizeof conn->why, "the server is not a master");
    return SL_RESULT_READONLY;
}

/* Only what says that no call can succeed is a refusal here: a user may lack the right to ask. */
static enum sl_result take_probe(struct sl_conn *conn, const char *command, const struct sl_reply *reply)
{
    if (reply->type == SL_REPLY_ERROR && sl_result_of_error(reply->text, reply->n) == SL_RESULT_NOAUTH)
        return refused(conn, command, reply, SL_RESULT_NOAUTH);
    return SL_RESULT_OK;
}

enum sl_result sl_greet_take(struct sl_conn *conn, const struct sl_reply *reply)
{
    switch (conn->steps[conn->step++]) {
    case SL_GREET_AUTH:
        return sl_reply_is(reply, "OK") ? SL_RESULT_OK : refused(conn, "AUTH", reply, SL_RESULT_WRONGPASS);
    case SL_GREET_SELECT:
        return sl_reply_is(reply, "OK") ? SL_RESULT_OK : refused(conn, "SELECT", reply, SL_RESULT_ERROR);
    case SL_GREET_ROLE:
        return take_role(conn, reply);
    case SL_GREET_MODULE:
        conn->has_module = sl_reply_is_array(reply, 1) && sl_reply_is_array(reply->elements[0], 1);
        return take_probe(conn, "COMMAND", reply);
    case SL_GREET_PING:
        break;
    }
    return take_probe(conn, "PING", reply);
}
