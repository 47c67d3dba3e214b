-- continue_as adds the run that ARGV describes from index first on. The new run replaces a run that
-- has ended: it follows that run in its chain, takes over the workflow ID and the inbox, and
-- becomes ready. followed is the time until which the streams of the chain are followed.
local function continue_as(run, chain, wid, first, now, unread, followed, order)
  local new, route, header, priority = ARGV[first], ARGV[first + 1], ARGV[first + 4], ARGV[first + 5]
  header = with_flag(with_flag(header, has_unread, unread > 0), has_rest, followed)
  add_run(first, now, header, order, true)
  intact('HSETNX', tag .. 'k', route, ARGV[first + 2])
  redis.call('HSET', tag .. 'm:' .. run, 'N', new)
  redis.call('HSET', tag .. 'm:' .. new, 'h', chain)
  if followed then
    redis.call('HSET', tag .. 'm:' .. new, 'Y', followed)
  end
  intact('HINCRBY', tag .. 'h', chain, '1')
  intact('HSET', tag .. 'T', chain, new)
  if wid ~= '' then
    intact('HSET', tag .. 'u', wid, new)
  end
  if unread > 0 then
    redis.call('RENAME', tag .. 'i:' .. run, tag .. 'i:' .. new)
  end
  if flagged(header, is_limited) then
    -- Part: limit limiter_queue join
    local l = uses_of(new)
    come(l, route, priority ~= '0' and priority)
    if l.key and queues(l) then
      redis.call('HSET', tag .. 'm:' .. new, 'p', l.place, 'V', pack_has(l))
      enqueue(new, route, priority ~= '0' and priority, l.place)
    elseif l.permits then
      enqueue(new, route, priority ~= '0' and priority, order)
    else
      join(new, header, route, priority ~= '0' and priority, l, order)
    end
  else
    enqueue(new, route, priority ~= '0' and priority, order)
  end
  compact(new, #ARGV[first + 3])
end
