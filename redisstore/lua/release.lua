-- Release gives an owned run back unchanged, under a new fence.
--
-- KEYS  1 metadata
-- ARGV  1 run  2 epoch  3 token
--
-- Returns {'ok'} or {'fenced'}.
--
-- Atomic, because the fence is compared and changed, and the run made ready, in
-- one action: nobody sees a run that is neither owned nor ready.
--
-- Parts: tag ready leave

local m = redis.call('HMGET', KEYS[1], 'e', 't', 'o', 'c', 'r')
if not m[2] or m[1] ~= ARGV[2] or m[2] ~= ARGV[3] then
  return {'fenced'}
end
redis.call('HSET', KEYS[1], 'e', m[1] + 1)
leave_owner(ARGV[1], m[3])
make_ready(ARGV[1], m[4], m[5])
return {'ok'}
