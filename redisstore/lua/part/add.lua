-- add_run stores a run that has no place yet. ARGV holds from first on: the run,
-- its class, the name of that, the first frame, its last event and cid, the
-- priority, the status, tags and the like or '', and more metadata in pairs.
local function add_run(first, now)
  local run, class, frame, priority, extra = ARGV[first], ARGV[first + 1], ARGV[first + 3], ARGV[first + 6], ARGV[first + 8]
  local meta = tag .. 'm:' .. run
  redis.call('XADD', tag .. 'l:' .. run, '1-0', 'f', frame)
  redis.call('HSET', meta, 'p', 5, 'l', ARGV[first + 5], 'e', 0, 'q', ARGV[first + 4], 'n', 1, 'g', #frame,
    's', ARGV[first + 7], 'c', class, 'a', now, unpack(ARGV, first + 9))
  if priority ~= '0' then
    redis.call('HSET', meta, 'r', priority)
  end
  if extra ~= '' then
    redis.call('SET', tag .. 'x:' .. run, extra)
  end
  redis.call('ZADD', tag .. 'p', 0, run)
  redis.call('HSETNX', tag .. 'k', class, ARGV[first + 2])
  compact(run, #frame)
  return run, class, priority
end
