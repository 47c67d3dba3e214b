-- silent reports whether a session whose lease is past is dead: its end has begun, or
-- others were heard for its TTL since its last renewal. Without a count of that time, or
-- with a later one than that of the partition, which has lost its own, the lease counts as
-- renewed now.
local function silent(session)
  local key, up = tag .. 'z:' .. session, redis.call('HGET', tag .. 'A', 'u') or '0'
  local s = intact('HMGET', key, 'r', 'l', 'u') or {}
  if s[1] or not s[2] then
    return true
  end
  if not s[3] or tonumber(s[3]) > tonumber(up) then
    redis.call('HSET', key, 'u', up)
    return false
  end
  return up - s[3] >= tonumber(s[2])
end
