-- hear counts for how long somebody was heard in the partition: a session with that TTL is
-- now. It returns the count. Package store says what for, and bounds a pause as this does.
local function hear(now, ttl)
  local h = redis.call('HMGET', tag .. 'A', 'u', 'h')
  local pause = math.min(now - (h[2] or now), 5000, math.floor(ttl / 4))
  local up = string.format('%.0f', (h[1] or 0) + math.max(pause, 0))
  redis.call('HSET', tag .. 'A', 'u', up, 'h', string.format('%.0f', now))
  return up
end
