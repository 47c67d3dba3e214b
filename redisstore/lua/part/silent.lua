-- silent reports whether a session with an expired lease is dead. It is dead if its end has begun,
-- or if other sessions were active for its TTL since its last renewal. If the recorded time of the
-- renewal is missing, or is greater than the time of the partition because that was lost, the lease
-- is treated as renewed at this moment.
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
