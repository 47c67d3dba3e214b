-- Forget removes the data that is stored under the ID of a run that does not exist, except for
-- fresh records of its outbox.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 log  4 seen items  5 number of later runs of each
--       chain  6 inbox  7 step data  8 extra  9 audit  10 records  11 bodies of the records
--       12 records by the time of their next action  13 and on: the sets in which the run was
--       found; then the keys of its streams
-- ARGV  1 run  2 number of sets  3 number of records to be removed  4 and on: the members in the
--       sets; then for each record its ID, its state and its body, both '' if absent
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a run may be created under the ID at any time: then none of its data may be
-- removed.
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
