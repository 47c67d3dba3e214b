-- Release makes an owned run ready under a new fence, without another change.
-- It mirrors Release of package protocol.
--
-- KEYS  1 metadata
-- ARGV  1 now  2 run  3 fence
--
-- Returns {'ok'} or {'fenced'}.
--
-- Atomic, because the fence is compared and changed and the run made ready in one action: the run
-- is never visible as neither owned nor ready.
--
-- Parts: tag intact clock header ready leave

local m = redis.call('HMGET', KEYS[1], 'H', 'p', 'c', 'r')
if not m[1] or string.sub(m[1], 9, 25) ~= ARGV[3] then
  return {'fenced'}
end
leave_owner(ARGV[2], m[2])
make_ready(ARGV[2], refenced(m[1], '1', nobody), m[3], m[4])
return {'ok'}
