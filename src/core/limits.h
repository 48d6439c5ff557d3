/* The ranges of SPEC section 2, in one place. Whatever is inside them is decided exactly; whatever is outside is an
 * error at load (policy) or a client error (request), never a wrap-around. */
#ifndef SL_CORE_LIMITS_H
#define SL_CORE_LIMITS_H

#include <stdint.h>

#define SL_COUNT_MAX UINT32_C(1000000000) /* COUNT and burst: 1 ... 10^9 */
#define SL_COST_MAX INT64_C(1000000000)   /* cost: 0 ... 10^9 */
#define SL_MS_US UINT64_C(1000)
#define SL_SECOND_US UINT64_C(1000000)
#define SL_DAY_US (UINT64_C(86400) * SL_SECOND_US)
#define SL_PERIOD_MIN_US SL_MS_US                    /* 1 ms */
#define SL_PERIOD_MAX_US (366 * SL_DAY_US)           /* 366 days */
#define SL_LIFE_MAX_US (UINT64_C(36525) * SL_DAY_US) /* 100 years: burst*PERIOD/COUNT, 2*PERIOD */
#define SL_LOG_COUNT_MAX_LOCAL UINT32_C(100000)
#define SL_LOG_COUNT_MAX_STORE UINT32_C(10000)
#define SL_RATES_MAX 8 /* rates in one limit */

/* Decisions are made at times up to here (the year 4000, Unix microseconds): later readings are refused where they
 * enter. With SL_LIFE_MAX_US on top every stored time fits the 56 bits a state word has for it. */
#define SL_TIME_MAX_US UINT64_C(64060588800000000)

#endif
