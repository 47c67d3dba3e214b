-- Note keeps a note of an owned run.
--
-- KEYS  1 metadata  2 notes
-- ARGV  1 epoch  2 token  3 name of the note  4 the note
--
-- Returns {'ok'} or {'fenced'}.
--
-- Atomic, because only the owner may write: the fence is compared in the same
-- action.
--
-- Parts: none

local m = redis.call('HMGET', KEYS[1], 'e', 't')
if not m[2] or m[1] ~= ARGV[1] or m[2] ~= ARGV[2] then
  return {'fenced'}
end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
return {'ok'}
