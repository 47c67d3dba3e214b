-- hear records that a session with the given TTL is active. It returns the total time for which the
-- partition has had an active session. Package store documents the use of this time, and defines
-- the maximum pause that counts.
local function hear(now, ttl)
  local h = redis.call('HMGET', tag .. 'A', 'u', 'h')
  local pause = math.min(now - (h[2] or now), 5000, math.floor(ttl / 4))
  local up = string.format('%.0f', (h[1] or 0) + math.max(pause, 0))
  redis.call('HSET', tag .. 'A', 'u', up, 'h', string.format('%.0f', now))
  return up
end
