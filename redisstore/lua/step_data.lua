-- StepData stores data of a step of an owned run, and resets the recovery count if it is progress.
-- It mirrors SetStepData of package protocol.
--
-- KEYS  1 metadata  2 step data
-- ARGV  1 fence  2 its key  3 the data  4 'p' if data that differs from the previous data is
--       progress
--
-- Returns {'ok'} or {'fenced'}.
--
-- Atomic, because only the owner may write: the fence is compared in the same action. The data is
-- removed at the end of the run.
--
-- Parts: header

local header = redis.call('HGET', KEYS[1], 'H')
if not header or string.sub(header, 9, 25) ~= ARGV[1] then
  return {'fenced'}
end
local new = with_flag(header, has_rest, true)
if ARGV[4] == 'p' and redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then
  new = string.sub(new, 1, 51) .. '\0\0' .. string.sub(new, 54)
end
if new ~= header then
  redis.call('HSET', KEYS[1], 'H', new)
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return {'ok'}
