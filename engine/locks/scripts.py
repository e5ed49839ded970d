"""The Lua scripts of the Redis locks: each is one atomic step on the server, by the server's clock.

KEYS: 1 `lock:{name}` (hash), 2 `fence:{name}` (last token), 3 `queue:{name}` (tickets), 4 `alive:{name}` (until when a
waiter counts), 5 `record:{name}` (hash). The braces put all of one lock into one slot of a cluster.
"""

NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"

# ARGV: owner, host, pid, lease in ms, silence in ms, queue (0 or 1), how long the counter is kept in ms.
# A token is also never below the server's time, so that a server that lost its counters gives no old token again.
TAKE = (
    NOW
    + """
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now)) do
  redis.call('ZREM', KEYS[3], gone); redis.call('ZREM', KEYS[4], gone)
end
local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
if redis.call('EXISTS', KEYS[1]) == 1 or (first and first ~= ARGV[1]) then
  if ARGV[6] == '1' then
    if not redis.call('ZSCORE', KEYS[3], ARGV[1]) then
      local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
      redis.call('ZADD', KEYS[3], (last or 0) + 1, ARGV[1])
    end
    redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[1])
    redis.call('PEXPIRE', KEYS[3], ARGV[7]); redis.call('PEXPIRE', KEYS[4], ARGV[7])
  end
  return false
end
redis.call('ZREM', KEYS[3], ARGV[1]); redis.call('ZREM', KEYS[4], ARGV[1])
local token = string.format('%.0f', math.max((redis.call('GET', KEYS[2]) or 0) + 1, now))
redis.call('SET', KEYS[2], token, 'PX', ARGV[7])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'host', ARGV[2], 'pid', ARGV[3], 'token', token, 'since', now)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return token
"""
)

# ARGV: owner, host, pid, lease in ms, token, how long the counter is kept in ms.
# A lock that lapsed, or that a server forgot which was started anew without its data, is the holder's still when the
# counter says that nobody has taken it since.
RENEW = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 and (redis.call('GET', KEYS[2]) or ARGV[5]) == ARGV[5] then
  redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[6])
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'host', ARGV[2], 'pid', ARGV[3], 'token', ARGV[5], 'since', now)
end
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[4])
"""
)

# ARGV: owner. The counter grows, so that nothing is renewed or written any more under the token that was given back.
RELEASE = """
redis.call('ZREM', KEYS[3], ARGV[1]); redis.call('ZREM', KEYS[4], ARGV[1])
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('INCR', KEYS[2])
return redis.call('DEL', KEYS[1])
"""

# ARGV: token, value, how long it is kept in ms. Without a counter nobody can tell who came last: refused.
WRITE = """
local last = redis.call('GET', KEYS[2])
if not last or tonumber(ARGV[1]) < tonumber(last) then return 0 end
redis.call('HSET', KEYS[5], 'token', ARGV[1], 'value', ARGV[2])
redis.call('PEXPIRE', KEYS[5], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
"""
