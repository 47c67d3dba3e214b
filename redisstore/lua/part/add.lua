-- add_run stores a run in a place, with one more field of its metadata. ARGV holds
-- from first on: the run, its class, the name of that, the first frame, its last
-- event and cid, the priority, the status, tags and the like or '', and more
-- metadata in pairs. The caller names the class. Without a value the field is where
-- the run comes among those that are ready; that is returned.
local function add_run(first, now, place, field, value)
  local run, frame, priority, extra = ARGV[first], ARGV[first + 3], ARGV[first + 6], ARGV[first + 8]
  local meta = tag .. 'm:' .. run
  redis.call('XADD', tag .. 'l:' .. run, '1-0', 'f', frame)
  value = value or next_order()
  redis.call('HSET', meta, 'p', place, 'l', ARGV[first + 5], 'e', '0', 'q', ARGV[first + 4], 'n', '1', 'g', #frame,
    's', ARGV[first + 7], 'c', ARGV[first + 1], 'a', now, field, value, unpack(ARGV, first + 9))
  if priority ~= '0' then
    redis.call('HSET', meta, 'r', priority)
  end
  if extra ~= '' then
    redis.call('SET', tag .. 'x:' .. run, extra)
  end
  redis.call('ZADD', tag .. 'p', '0', run)
  return value
end
