-- Delete hides an ended run and leaves its removal to the next purge.
-- It mirrors Delete of package protocol.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 ended runs by purge time  4 latest runs  5 ended
--       runs whose purge is held back
-- ARGV  1 run  2 minimum retention
--
-- Returns {'ok'}, {'unknown'} or {'not ended', status}.
--
-- Atomic, because the metadata is renamed and the run is removed from the indexes and from its
-- workflow ID in one action: no other script finds it afterwards.
--
-- Parts: tag intact header sets last

local m = redis.call('HMGET', KEYS[1], 'H', 'p', 'a', 'w', 'h', 'c', 'u', 'g', 'i')
local queue_state = queue_state_of(m[1])
if not queue_state then
  return {redis.call('EXISTS', KEYS[2]) == 1 and 'ok' or 'unknown'}
end
if queue_state ~= '6' then
  return {'not ended', string.byte(m[1], 50)}
end
local held = redis.call('ZSCORE', KEYS[5], ARGV[1])
redis.call('ZADD', held and KEYS[5] or KEYS[3], math.max(m[3], m[2]) + ARGV[2], ARGV[1])
if m[8] then
  -- Part: failure_group
  relabel(ARGV[1], '')
end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('ZREM', done_runs(m[6], m[7], m[1]), ARGV[1])
if m[4] or m[9] then
  -- Part: label
  for _, set in ipairs(label_sets(ARGV[1], m[4], m[9])) do
    intact('ZREM', set, ARGV[1])
  end
end
forget_last(m[4], ARGV[1])
redis.call('PUBLISH', tag .. 'frame:' .. ARGV[1], '')
redis.call('PUBLISH', tag .. 'stream:' .. (m[5] or ARGV[1]), '')
return {'ok'}
