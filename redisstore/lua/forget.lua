-- Forget removes what is kept under the id of a run that does not exist.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 log  4 seen items
--       5 later runs of each chain  6 inbox  7 step data  8 extra  9 audit
--       10 and on: the sets that the run was seen in; then what there is of streams
-- ARGV  1 run  2 how many sets  3 and on: what stands in them
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a run may be created under the id at any time: then nothing of
-- it may be removed.
--
-- Parts: tag expel

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 then
  return {'moved'}
end
local removed = expel(ARGV[1], 10, 3, tonumber(ARGV[2]))
if not redis.call('HGET', KEYS[5], ARGV[1]) then
  removed = removed + redis.call('UNLINK', KEYS[4], unpack(KEYS, 10 + ARGV[2], #KEYS - 1))
end
removed = removed + redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[8], KEYS[9])
return {removed > 0 and 'ok' or 'moved'}
