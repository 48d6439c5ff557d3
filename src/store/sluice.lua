-- sluice: the atomic decision, for stores that load no modules. modules/redis does the same to the same bytes.
--
--   EVALSHA sha1 N key1 ... keyN ask        ->  answer
--
-- Every key it touches is in KEYS, and all of them are in one slot. It works by the store's clock, and replicates as
-- what it did (SET ... PXAT), never as itself. Redis >= 6.2, Valkey.
--
-- The caller has multiplied: costs and capacities come as whole microseconds and a numerator over n, so that this
-- script only adds, compares and stores. Every number in it is an integer below 2^53, which a double holds exactly;
-- that bounds the clock to 5.8e15 us (the year 2153). The one product that is larger, the sliding counter's, is
-- compared in two limbs. The caller computes the verdict itself from what comes back: the states before, and the time.
--
-- All integers are big-endian, and unsigned.
--   ask     wire 1 = 1, flags 1, [now 8], groups. flags: 1 now follows (tests only; never decreasing), 2 a bucket is a log
--   group   op 1, n 1 (buckets), runs 2, n buckets, runs. Its buckets take the next n of KEYS. op: 0 decide, 1 peek (as
--           decide, but all costs are 0 and nothing is written), 2 give back (no runs; a charge follows each bucket)
--   bucket  tag 1, version 1, n 4, full 8, top 4, [for the module: limit 4, token 8, token's numerator 4]
--           token and leaky bucket: the full debt is full + top/n us. Windows: full = PERIOD in us, top = COUNT
--   run     repeat 2, then for each bucket: cost 8, numerator 4, [for the module: tokens 4]. That many requests, one
--           after another, each charged on all buckets of the group or on none. Windows: cost in tokens. A cost that
--           can never fit is 2^52
--   charge  cost 8, numerator 4, [tokens 4], time 8; but for the log also: the value it wrote, its whole 8; and the state
--           before it: whole 8, low 4, prev 4
--
--   answer  now 8, then for each group
--           decide, peek: allowed requests 2 (65535: a foreign value, nothing was charged), n pieces, fits
--           give back: buckets that were given something back 2
--   piece   0 (no value), 1 (foreign), or the value as it was before the group; for the log 0x83, sum 4, newest 8
--   fit 8   for each run that a log had no room for and could have some day: when it will have
--
-- A value is 12 bytes: tag 1, [version 6 bits, whole's bits 48 ... 51, low 30 bits], whole's low 48 bits. The tag is
-- 0x80 + algorithm, + 8 for whole's bit 52. low is a bucket's numerator or a window's count; the sliding counter adds
-- its previous count, 4. See core/state.h for what they mean. The log is a sorted set, score = time in us, member =
-- tag 1, running total 7, cost 4: the sum of any stretch of it is the difference of two running totals.
local LEAKY, FIXED, LOG, COUNTER, FAR = 0x81, 0x82, 0x83, 0x84, 8
local get, put, format = struct.unpack, struct.pack, string.format
local read, write = redis.pcall, redis.call

local ask = ARGV[1]
local wire, flags, pos = get('>BB', ask)
if wire ~= 1 or flags > 3 then
    return redis.error_reply('ERR sluice: the ask has a wire version or flags this script does not know')
end
local virtual, now = flags % 2 == 1, nil
if virtual then
    now, pos = get('>I8', ask, pos)
else
    local t = read('TIME')
    now = t[1] * 1000000 + t[2]
end
if now > 5800000000000000 then
    return redis.error_reply('ERR sluice: the clock is beyond the year 2153')
end

-- The bucket at hand. A group of several keeps one table a bucket besides; nearly every call is about one bucket of
-- constant size, and shall not pay for tables and closures (they were a third of its time).
local tag, version, n, full, top, key -- as asked
local raw -- the value; false: none, 1: foreign. The log: true, false or 1
local whole, low, prev -- the state as it counts now. The log: newest + full, sum, 0
local healed, charged -- why it must be stored
local log -- what else is known of a log, a table

local log_load, log_heal, log_save, log_fit, log_give_back
if flags >= 2 then
    local WRAP, SUM_MAX, GIVE_BACK_MAX = 2^52, 100000, 100

    local function member(total, cost)
        return put('>BI7I4', LOG, total, cost)
    end

    -- The first entry of a reply WITHSCORES: time, running total, cost; nil when there is none, or a foreign one.
    local function entry(reply, at)
        local m = reply[at or 1]
        if not m or #m ~= 12 then
            return nil
        end
        local head, total, cost = get('>BI7I4', m)
        if head ~= LOG then
            return nil
        end
        return tonumber(reply[(at or 1) + 1]), total, cost
    end

    local function first_after(t)
        return read('ZRANGEBYSCORE', key, format('(%d', t), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    end

    local function expire(t)
        t = t + full + 999
        if virtual then
            t = t - now + 3600000000
        end
        write(virtual and 'PEXPIRE' or 'PEXPIREAT', key, format('%d', (t - t % 1000) / 1000))
    end

    -- Entries from the future (a clock that leapt and came back) count as one of now: l.ahead.
    log_load = function()
        local l = {total = 0, sum = 0}
        local last = read('ZRANGE', key, '-1', '-1', 'WITHSCORES')
        log, low, whole, raw = l, 0, 0, false
        if #last == 0 and not last.err then
            return
        end
        local t, total = entry(last)
        raw = t and true or 1
        if not t or t <= now - full then
            return
        end
        local oldest = first_after(now - full)
        local cost
        l.total, l.first = total, oldest[1]
        l.first_t, total, cost = entry(oldest)
        if not l.first_t then
            raw = 1
            return
        end
        l.first_cost, l.base = cost, (total - cost) % WRAP
        l.sum = (l.total - l.base) % WRAP
        if l.sum < 1 or l.sum > SUM_MAX then
            raw = 1
        elseif t > now then
            t, total, cost = entry(first_after(now))
            if not t then
                raw = 1
                return
            end
            l.ahead = (l.total - total + cost) % WRAP
            if l.first_t > now then
                l.first, l.first_t, l.first_cost = member(l.total, l.ahead), now, l.ahead
            end
            t = now
        end
        low, whole = l.sum, t + full
    end

    log_heal = function()
        write('ZREMRANGEBYSCORE', key, format('(%d', now), '+inf')
        write('ZADD', key, format('%d', now), member(log.total, log.ahead))
        expire(now)
    end

    log_save = function()
        local added = low - log.sum
        write('ZREMRANGEBYSCORE', key, '-inf', format('%d', now - full))
        write('ZADD', key, format('%d', now), member((log.total + added) % WRAP, added))
        expire(now)
    end

    -- When `need` tokens will have left: entries leave oldest first, and their running totals are in order.
    log_fit = function(need)
        if need > log.sum then
            return now + full
        elseif need <= log.first_cost then
            return log.first_t + full
        end
        local lo, hi = read('ZRANK', key, log.first), read('ZCARD', key) - 1
        local at = whole - full
        while lo < hi do
            local mid = (lo + hi - (lo + hi) % 2) / 2
            local rank = format('%d', mid)
            local t, total = entry(read('ZRANGE', key, rank, rank, 'WITHSCORES'))
            if not t then -- foreign: what is known so far is later than the truth
                break
            elseif (total - log.base) % WRAP >= need then
                hi, at = mid, t
            else
                lo = mid + 1
            end
        end
        return at + full
    end

    -- Takes the cost out of an entry of that instant, and out of the running totals after it. With too many after it,
    -- nothing.
    log_give_back = function(t, cost)
        local later = t > now - full and read('ZRANGEBYSCORE', key, format('%d', t), '+inf', 'WITHSCORES', 'LIMIT', '0',
                                              format('%d', GIVE_BACK_MAX))
        if not later or later.err or #later == 2 * GIVE_BACK_MAX then
            return false
        end
        local moved = {}
        for i = 1, #later, 2 do
            local entry_t, total, entry_cost = entry(later, i)
            if not entry_t then
                return false
            end
            if #moved > 0 then
                moved[#moved + 1] = {later[i], later[i + 1], (total - cost) % WRAP, entry_cost}
            elseif entry_t == t and entry_cost >= cost then
                moved[1] = {later[i], later[i + 1], (total - cost) % WRAP, entry_cost - cost}
            end
        end
        for i = 1, #moved do
            write('ZREM', key, moved[i][1])
        end
        for i = 1, #moved do
            if moved[i][4] > 0 then
                write('ZADD', key, moved[i][2], member(moved[i][3], moved[i][4]))
            end
        end
        local newest = #moved > 0 and entry(read('ZRANGE', key, '-1', '-1', 'WITHSCORES'))
        if newest then
            expire(newest)
        end
        return #moved > 0
    end
end

local size, used_keys = #ask, 0
local out = put('>I8', now)
while pos <= size do
    local op, buckets, runs
    op, buckets, runs, pos = get('>BBH', ask, pos)
    local many = buckets > 1 and {}
    local pieces, fits, foreign, allowed = '', '', false, 0

    -- First, every bucket is loaded.
    for i = 1, buckets do
        tag, version, n, full, top, pos = get('>BBI4I8I4', ask, pos)
        pos = pos + 16
        used_keys = used_keys + 1
        key = KEYS[used_keys]
        healed, charged, log = false, false, nil
        local v
        if tag == LOG then
            log_load()
            prev = 0
        else
            whole, low, prev = -1, 0, 0
            raw = read('GET', key)
            if raw and #raw ~= (tag == COUNTER and 16 or 12) then -- an error is a table, of length 0
                raw = 1
            elseif raw then
                local head, x, hi
                head, x, whole = get('>BI5I6', raw)
                if tag == COUNTER then
                    prev = get('>I4', raw, 13)
                end
                low = x % 2^30
                hi = (x - low) % 2^34
                v, whole = (x - hi - low) / 2^34, hi * 2^18 + whole
                if head == tag + FAR then
                    whole = whole + 2^52
                elseif head ~= tag then
                    raw = 1
                end
            end
        end
        foreign = foreign or raw == 1

        if op == 2 then
            -- Gives back: core/refund.c. What was given back is stored as if it was charged.
            local cost, numerator, t = get('>I8I4xxxxI8', ask, pos)
            pos = pos + 24
            if tag == LOG then
                charged = log_give_back(t, cost)
            else
                local len = tag == COUNTER and 16 or 12
                local after = ask:sub(pos, pos + len - 1)
                local after_whole, before_whole, before_low, before_prev = get('>I8I8I4I4', ask, pos + len)
                pos = pos + len + 24
                if raw == after and v == version then
                    charged, whole, low, prev = true, before_whole, before_low, before_prev
                elseif raw and raw ~= 1 and v == version and tag <= LEAKY then
                    local elapsed, debt = now > t and now - t or 0, whole - now
                    if low < n and (debt > 0 or debt == 0 and low > 0) and
                        (cost > elapsed or cost == elapsed and numerator > 0) then
                        debt, low = debt - (cost - elapsed), low - numerator
                        if low < 0 then
                            debt, low = debt - 1, low + n
                        end
                        if debt < 0 then
                            debt, low = 0, 0
                        end
                        charged, whole = true, now + debt
                    end
                elseif raw and raw ~= 1 and v == version and whole > now then
                    if whole == after_whole then
                        charged, low = true, low > cost and low - cost or 0
                    elseif tag == COUNTER and whole == after_whole + full then
                        charged, prev = true, prev > cost and prev - cost or 0
                    end
                end
            end
            allowed = charged and allowed + 1 or allowed
        elseif tag <= LEAKY then
            -- What the state says now: core/decide.c.
            local debt = whole - now
            if debt < 0 then
                whole, low = now, 0
            elseif v ~= version or low >= n or debt > full or debt == full and low > top then
                local tolerated = 1000000 -- SL_STALE_MAX_US
                if v ~= version or low >= n then
                    debt, low, tolerated = low > 0 and debt + 1 or debt, 0, 0
                end
                if debt > full + tolerated or debt == full + tolerated and low > top then
                    debt, low, healed = full, top, true
                end
                whole = now + debt
            end
        elseif tag ~= LOG then
            local last = now - now % full + full -- the end of this window
            local life = tag == FIXED and 0 or full -- how long a count lives on after its window
            if whole <= now then
                whole, low, prev = last + life, 0, 0
            elseif tag == COUNTER and v == version and whole == last then
                whole, low, prev = last + full, 0, low
            elseif whole ~= last + life or tag == COUNTER and v ~= version then
                local start = whole - life - full
                if start <= 0 or v ~= version or start <= now or start - now > 1000000 or start % full ~= 0 then
                    whole, healed = last + life, true
                end
            end
        end

        local piece = raw or '\0'
        if raw == 1 then
            piece = '\1'
        elseif tag == LOG then
            piece = low > 0 and put('>BI4I8', LOG, low, whole - full) or '\0'
        end
        if many then
            pieces = pieces .. piece
            many[i] = {tag, version, n, full, top, key, raw, whole, low, prev, healed, charged, log}
        else
            pieces = piece
        end
    end
    if foreign and op ~= 2 then
        allowed = 65535
    elseif flags >= 2 and op == 0 then
        for i = 1, buckets do
            if many then
                tag, version, n, full, top, key, raw, whole, low, prev, healed, charged, log = unpack(many[i], 1, 13)
            end
            if log and log.ahead then
                log_heal()
            end
        end
    end

    -- Then the requests are charged, one after another, each on all buckets or on none.
    for _ = 1, runs do
        local times, at = get('>H', ask, pos)
        pos = at + 16 * buckets
        if foreign then
            times = 0
        end
        for _ = 1, times do
            local room = true
            local next_whole, next_low, spends
            for i = 1, buckets do
                local cost, numerator = get('>I8I4', ask, at + 16 * (i - 1))
                if many then
                    tag, version, n, full, top, key, raw, whole, low, prev, healed, charged, log =
                        unpack(many[i], 1, 13)
                end
                spends = cost > 0 or numerator > 0
                if spends and tag <= LEAKY then
                    next_whole, next_low = whole + cost, low + numerator
                    if next_low >= n then
                        next_whole, next_low = next_whole + 1, next_low - n
                    end
                    local debt = next_whole - now
                    if debt > full or debt == full and next_low > top then
                        room = false
                    end
                elseif spends then
                    next_whole, next_low = whole, low + cost
                    if next_low > top then
                        room = false
                        if tag == LOG and cost < 2^52 then
                            fits = fits .. put('>I8', log_fit(next_low - top))
                        end
                    elseif prev > 0 then
                        -- prev * left <= (COUNT - used) * PERIOD, of 75 bits: in limbs of 2^23
                        local left = whole - full - now
                        if left > full then
                            left = full
                        end
                        local rest = top - next_low
                        local l, p = left % 2^23, full % 2^23
                        local a, b = prev * l, rest * p
                        local a_low, b_low = a % 2^23, b % 2^23
                        a = prev * ((left - l) / 2^23) + (a - a_low) / 2^23
                        b = rest * ((full - p) / 2^23) + (b - b_low) / 2^23
                        if a > b or a == b and a_low > b_low then
                            room = false
                        end
                    end
                end
                if many then
                    many[i].next_whole, many[i].next_low, many[i].spends = next_whole, next_low, spends
                end
            end
            if not room then
                break
            end
            allowed = allowed + 1
            if many then
                for i = 1, buckets do
                    local b = many[i]
                    if b.spends then
                        b[8], b[9], b[12] = b.next_whole, b.next_low, true
                    end
                end
            elseif spends then
                whole, low, charged = next_whole, next_low, true
            end
        end
    end

    -- Last, what changed is stored, and a value that has lost its time to live gets it back.
    for i = 1, (op == 1 or foreign and op ~= 2) and 0 or buckets do
        if many then
            tag, version, n, full, top, key, raw, whole, low, prev, healed, charged, log = unpack(many[i], 1, 13)
        end
        if tag == LOG and charged then
            if op == 0 then
                log_save()
            end
        elseif charged or healed or raw and op == 0 and read('PTTL', key) == -1 then
            local ends = (tag <= LEAKY and low > 0) and whole + 1 or whole
            local ttl = ends + 999
            if virtual then -- that lies in the past: the time left, and an hour, as a test's clock may stand still
                ttl = ttl - now + 3600000000
            end
            ttl = format('%d', (ttl - ttl % 1000) / 1000)
            if not (charged or healed) then
                write(virtual and 'PEXPIRE' or 'PEXPIREAT', key, ttl)
            elseif ends <= now then
                write('DEL', key)
            else
                local head, y = tag, whole
                if y >= 2^52 then
                    head, y = tag + FAR, y - 2^52
                end
                local x = y
                y = y % 2^48
                x = version * 2^34 + (x - y) / 2^18 + low
                write('SET', key, tag == COUNTER and put('>BI5I6I4', head, x, y, prev) or put('>BI5I6', head, x, y),
                      virtual and 'PX' or 'PXAT', ttl)
            end
        end
    end
    out = out .. put('>H', allowed)
    if op ~= 2 then
        out = out .. pieces .. fits
    end
end
return out
