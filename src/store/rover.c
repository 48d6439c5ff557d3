#include "store/rover.h"

#include "base/err.h"

#include <string.h>

static uint64_t now_us(const struct sl_rover *rover)
{
    return rover->net->now_us(rover->net->ctx);
}

static void set_timer(struct sl_rover *rover, uint64_t delay_us)
{
    rover->net->timer_set(rover->timer, now_us(rover) + delay_us);
}

static uint64_t jitter(const struct sl_rover *rover, uint64_t us)
{
    return sl_net_between(rover->net, us / 2, us + us / 2);
}

static void rest(struct sl_rover *rover)
{
    rover->state = SL_ROVER_RESTING;
    rover->failed = 0;
    sl_backoff_reset(&rover->rounds);
    set_timer(rover, jitter(rover, rover->again ? SL_ROVER_GAP_US : rover->period_us));
    rover->again = false;
}

/* The current one was of no use. */
static void go_on(struct sl_rover *rover)
{
    uint64_t delay = 0;

    rover->index = (rover->index + 1) % rover->n;
    rover->state = SL_ROVER_NEXT;
    rover->failed++;
    if (rover->failed % rover->n == 0) {
        delay = sl_backoff_next_us(&rover->rounds, rover->net->random(rover->net->ctx));
        rover->lost(rover->owner, rover->conn.why);
    }
    set_timer(rover, delay);
}

static void on_answer(struct sl_conn_call *call, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_rover *rover = SL_CONTAINER(call, struct sl_rover, call);
    struct sl_endpoint from = rover->conn.endpoint;

    if (result == SL_RESULT_CLOSED)
        return;
    if (result == SL_RESULT_OK && rover->take(rover->owner, reply, &from))
        rest(rover);
    else
        go_on(rover);
}

static unsigned write_question(struct sl_conn_call *call, struct sl_conn *conn, struct sl_out *out)
{
    struct sl_rover *rover = SL_CONTAINER(call, struct sl_rover, call);

    (void)conn;
    sl_out_command(out, rover->words, rover->n_words);
    return 0;
}

static void ask(struct sl_rover *rover)
{
    const struct sl_endpoint *endpoint = &rover->endpoints[rover->index];
    enum sl_result result;

    rover->state = SL_ROVER_ASKING;
    rover->asked_us = now_us(rover);
    set_timer(rover, SL_ROVER_ANSWER_US);
    if (rover->conn.state != SL_CONN_READY || !sl_endpoint_equal(&rover->conn.endpoint, endpoint)) {
        sl_conn_move(&rover->conn, endpoint, SL_RESULT_CLOSED);
        sl_conn_start(&rover->conn);
    }
    result = sl_conn_send(&rover->conn, &rover->call);
    if (result != SL_RESULT_OK)
        go_on(rover);
}

static void on_timer(void *owner)
{
    struct sl_rover *rover = owner;

    if (rover->state == SL_ROVER_ASKING) {
        sl_conn_forget(&rover->conn, &rover->call);
        sl_conn_move(&rover->conn, &rover->endpoints[rover->index], SL_RESULT_CLOSED);
        go_on(rover);
        return;
    }
    ask(rover);
}

void sl_rover_ask(struct sl_rover *rover, const struct sl_endpoint *avoid)
{
    uint64_t at, now = now_us(rover);

    if (rover->state != SL_ROVER_RESTING) {
        rover->again = true;
        return;
    }
    if (avoid && sl_endpoint_equal(avoid, &rover->endpoints[rover->index]))
        rover->index = (rover->index + 1) % rover->n;
    rover->state = SL_ROVER_NEXT;
    at = rover->asked_us + jitter(rover, SL_ROVER_GAP_US);
    set_timer(rover, rover->asked_us && at > now ? at - now : 0);
}

void sl_rover_set(struct sl_rover *rover, const struct sl_endpoint *endpoints, unsigned n)
{
    struct sl_endpoint current = rover->endpoints[rover->index];

    rover->n = n < SL_ROVER_ENDPOINTS_MAX ? n : SL_ROVER_ENDPOINTS_MAX;
    memcpy(rover->endpoints, endpoints, rover->n * sizeof *endpoints);
    rover->index = 0;
    for (unsigned i = 0; i < rover->n; i++) {
        if (sl_endpoint_equal(&endpoints[i], &current))
            rover->index = i;
    }
}

int sl_rover_init(struct sl_rover *rover, const struct sl_conn_config *conn_config, const struct sl_endpoint *endpoints,
                  unsigned n)
{
    struct sl_conn_config config = *conn_config;

    config.redial = false;
    config.changed = NULL;
    config.pushed = NULL;
    rover->net = config.net;
    rover->call = (struct sl_conn_call){.write = write_question, .done = on_answer};
    rover->rounds = (struct sl_backoff){.base_us = SL_ROVER_GAP_US, .cap_us = SL_ROVER_ROUND_CAP_US};
    rover->state = SL_ROVER_RESTING;
    rover->timer = rover->net->timer_new(rover->net->ctx, on_timer, rover);
    if (!rover->timer)
        return SL_ENOMEM;
    if (sl_conn_init(&rover->conn, &config, &endpoints[0])) {
        rover->net->timer_free(rover->timer);
        return SL_ENOMEM;
    }
    sl_rover_set(rover, endpoints, n);
    rover->index = (unsigned)sl_net_between(rover->net, 0, rover->n - 1);
    rover->on = true;
    return 0;
}

void sl_rover_fini(struct sl_rover *rover)
{
    if (!rover->on)
        return;
    sl_conn_fini(&rover->conn);
    rover->net->timer_free(rover->timer);
    rover->on = false;
}
