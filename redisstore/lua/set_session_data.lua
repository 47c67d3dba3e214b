-- SetSessionData stores data of a session for operators, until the session ends.
--
-- KEYS  1 the session
-- ARGV  1 the data, '' to remove them
--
-- Returns {'ok'}, or {'expired', overwritten key, …} if the session has ended or is being recovered.
--
-- Atomic, because a session that is gone must not be created by a write of its data.
--
-- Parts: tag intact

local s = intact('HMGET', KEYS[1], 'i', 'r') or {}
if not s[1] or s[2] then
  return notified({'expired'})
end
if ARGV[1] == '' then
  redis.call('HDEL', KEYS[1], 'd')
else
  redis.call('HSET', KEYS[1], 'd', ARGV[1])
end
return {'ok'}
