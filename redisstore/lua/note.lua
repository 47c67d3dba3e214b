-- Note keeps a note of an owned run.
--
-- KEYS  1 metadata  2 notes
-- ARGV  1 fence  2 name of the note  3 the note
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
if not flagged(head, has_rest) then
  redis.call('HSET', KEYS[1], 'H', with_flag(head, has_rest, true))
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return {'ok'}
