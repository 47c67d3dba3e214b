-- add_run stores a run with a header and the value of its queue state. From index first on, ARGV
-- contains the run, its route, the name of the route, the first frame, the header of a ready run,
-- the priority, the tags and other extra data or '', and further metadata in pairs. The caller
-- registers the route. Without a value the run is ready, and its value is a new order number.
-- add_run returns the value.
-- If the caller must not fail, lenient skips the set of open runs if it was overwritten. The sets
-- of labels are always skipped in that case: searches by label report it, and a repair writes them
-- again. The caller must include the parts sets and enlist.
local function add_run(first, now, header, value, lenient)
  local run, frame, priority, extra = ARGV[first], ARGV[first + 3], ARGV[first + 5], ARGV[first + 6]
  local meta = tag .. 'm:' .. run
  redis.call('XADD', tag .. 'l:' .. run, '1-0', 'f', frame)
  value = value or next_order()
  redis.call('HSET', meta, 'H', header, 'p', value, 'c', ARGV[first + 1], 'a', now, unpack(ARGV, first + 7))
  if priority ~= '0' then
    redis.call('HSET', meta, 'r', priority)
  end
  if extra ~= '' then
    redis.call('SET', tag .. 'x:' .. run, extra)
  end
  local parent, wid, tags
  for i = first + 7, #ARGV, 2 do
    local field = ARGV[i]
    if field == 'u' then
      parent = true
    elseif field == 'w' then
      wid = ARGV[i + 1]
    elseif field == 'i' then
      tags = extra ~= '' and extra or ARGV[i + 1]
    end
  end
  (lenient and redis.pcall or enlist)('ZADD', open_runs(ARGV[first + 1], parent), now, run)
  if wid or tags then
    -- Part: label
    for _, set in ipairs(label_sets(run, wid, tags)) do
      redis.pcall('ZADD', set, now, run)
    end
  end
  return value
end
