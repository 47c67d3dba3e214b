-- Serves reports whether a session with a valid lease serves a route.
--
-- KEYS  1 leases
-- ARGV  1 now  2 the route
--
-- Returns 1 or 0.
--
-- Atomic, because the keys of the sessions are built: the sessions are found here.
--
-- Parts: tag intact clock

for _, session in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('%.0f', clock(ARGV[1])), '+inf')) do
  local s = intact('HMGET', tag .. 'z:' .. session, 'k', 'r') or {}
  if s[1] and not s[2] then
    for i = 1, #s[1], 16 do
      if string.sub(s[1], i, i + 15) == ARGV[2] then
        return 1
      end
    end
  end
end
return 0
