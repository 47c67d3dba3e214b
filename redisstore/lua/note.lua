-- Note keeps a note of an owned run, and forgets its recoveries if the note is progress.
-- It mirrors SetNote of package protocol.
--
-- KEYS  1 metadata  2 notes
-- ARGV  1 fence  2 name of the note  3 the note  4 'p': another note than before is progress
--
-- Returns {'ok'} or {'fenced'}.
--
-- Atomic, because only the owner may write: the fence is compared in the same
-- action. The end of the run removes its notes.
--
-- Parts: head

local head = redis.call('HGET', KEYS[1], 'H')
if not head or string.sub(head, 9, 25) ~= ARGV[1] then
  return {'fenced'}
end
local new = with_flag(head, has_rest, true)
if ARGV[4] == 'p' and redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then
  new = string.sub(new, 1, 51) .. '\0\0' .. string.sub(new, 54)
end
if new ~= head then
  redis.call('HSET', KEYS[1], 'H', new)
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return {'ok'}
