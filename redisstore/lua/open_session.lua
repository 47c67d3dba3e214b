-- OpenSession adds a lease, or renews it, and makes ready what other code than
-- that of the session could not replay.
--
-- KEYS  1 the session  2 leases  3 and on: blocked runs of each class
-- ARGV  1 now  2 session  3 its id  4 worker  5 time to live  6 fingerprint
--       7 how many to make ready at most  8 and on: the classes
--
-- Returns {'ok', left}: left is 1 if more runs are to be made ready by another
-- call; or {'expired'}.
--
-- Atomic, because a session that is being recovered must not come back, and a
-- blocked run must become ready in one action.
--
-- Parts: tag clock head ready

if redis.call('HGET', KEYS[1], 'r') then
  return {'expired'}
end
redis.call('HSET', KEYS[1], 'i', ARGV[3], 'w', ARGV[4], 'l', ARGV[5])
redis.call('ZADD', KEYS[2], clock(ARGV[1]) + ARGV[5], ARGV[2])
local left = tonumber(ARGV[7])
for i = 3, #KEYS - 1 do
  local blocked = redis.call('HGETALL', KEYS[i])
  for j = 1, #blocked, 2 do
    if blocked[j + 1] ~= ARGV[6] then
      if left == 0 then
        return {'ok', 1}
      end
      left = left - 1
      local m = redis.call('HMGET', tag .. 'm:' .. blocked[j], 'H', 'r')
      if place_of(m[1]) == '4' then
        make_ready(blocked[j], m[1], ARGV[i + 5], m[2])
      end
      redis.call('HDEL', KEYS[i], blocked[j])
    end
  end
end
return {'ok', 0}
