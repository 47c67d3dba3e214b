-- Publish appends chunks to streams of an owned run, either all of them or none.
-- It mirrors Publish of package protocol.
--
-- KEYS  1 metadata
-- ARGV  1 run  2 fence  3 number of publications  4 and on: the publications in the format of
--       write_chunks
--
-- Returns {'ok'}, {'fenced'} or {'closed', name of the stream}.
--
-- Atomic, because only the owner may write: the fence is compared in the same action, and the
-- chunks get the indexes that follow the existing ones. The keys of the streams are built: they
-- belong to the chain of the run, which is found here. A chunk that its writer has written before
-- is skipped.
--
-- Parts: tag stream chunks publish

local m = redis.call('HMGET', KEYS[1], 'H', 'h', 'Y')
if not m[1] or string.sub(m[1], 9, 25) ~= ARGV[2] then
  return {'fenced'}
end
local chain = m[2] or ARGV[1]
local states = {}
for i = 4, 4 + 6 * ARGV[3] - 1, 6 do
  local name, writer = ARGV[i], ARGV[i + 4]
  if not states[name] then
    local _, _, _, closed = stream_at(chain, name)
    states[name] = closed or '0'
  end
  if states[name] == '1' and (writer == ''
    or tonumber(redis.call('HGET', tag .. 'W:' .. chain .. ':' .. name, writer) or 0) < tonumber(ARGV[i + 5])) then
    return {'closed', name}
  end
end
publish(chain, write_chunks(chain, 4, tonumber(ARGV[3])), m[3])
return {'ok'}
