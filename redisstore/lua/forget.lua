-- Forget removes what is kept under the id of a run that does not exist, but for fresh records of its outbox.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 log  4 seen items
--       5 later runs of each chain  6 inbox  7 step data  8 extra  9 audit  10 records  11 what these say
--       12 records by when something is to be done for them
--       13 and on: the sets that the run was seen in; then what there is of streams
-- ARGV  1 run  2 how many sets  3 how many records to be removed  4 and on: what stands in the sets; then of each
--       record its id, what is known of it, and what it says, both '' if there is none
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a run may be created under the id at any time: then nothing of
-- it may be removed.
--
-- Parts: tag expel outbox

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 then
  return {'moved'}
end
local run, sets = ARGV[1], tonumber(ARGV[2])
local removed = expel(run, 13, 4, sets)
if not redis.call('HGET', KEYS[5], run) then
  removed = removed + redis.call('UNLINK', KEYS[4], unpack(KEYS, 13 + sets, #KEYS - 1))
end
for i = 4 + sets, 3 + sets + 3 * ARGV[3], 3 do
  local known, body = redis.call('HGET', KEYS[10], ARGV[i]) or '', redis.call('HGET', KEYS[11], ARGV[i]) or ''
  if known == ARGV[i + 1] and body == ARGV[i + 2] then
    removed = removed + redis.call('HDEL', KEYS[10], ARGV[i]) + redis.call('HDEL', KEYS[11], ARGV[i])
    local order = read_record(known)
    if order then
      redis.call('ZREM', KEYS[12], order .. run .. ARGV[i])
    end
  end
end
removed = removed + redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[8], KEYS[9])
return {removed > 0 and 'ok' or 'moved'}
