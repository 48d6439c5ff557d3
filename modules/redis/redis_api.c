#include "redis/redis_api.h"

#define X(result, name, arguments) result(*redis_##name) arguments;
REDIS_API_MAP(X)
#undef X

typedef int (*get_api)(const char *name, void *ret_function);

bool redis_api_load(struct redis_ctx *ctx)
{
    get_api get = *(get_api *)(void *)ctx;
    const char *missing = NULL;

    if (!get)
        return false;
#define X(result, name, arguments)                                                                                 \
    if (get("RedisModule_" #name, (void *)&redis_##name) != REDIS_OK) {                                            \
        redis_##name = NULL;                                                                                       \
        missing = #name;                                                                                           \
        if (redis_Log)                                                                                             \
            redis_Log(ctx, "warning", "sluice: this server has no RedisModule_%s; Redis 6.2.2 or later is needed", \
                      missing);                                                                                    \
    }
    REDIS_API_MAP(X)
#undef X
    return !missing;
}
