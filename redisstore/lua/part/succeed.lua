-- succeed puts the run that ARGV describes from first on into the place of one
-- that has ended: it follows that in its chain, takes over the workflow id and the
-- inbox, and is ready.
local function succeed(run, chain, wid, first, now, unread)
  local new, class, priority = ARGV[first], ARGV[first + 1], ARGV[first + 6]
  local order = add_run(first, now, '1', 'k')
  redis.call('HSETNX', tag .. 'k', class, ARGV[first + 2])
  redis.call('HSET', tag .. 'm:' .. run, 'N', new)
  redis.call('HSET', tag .. 'm:' .. new, 'h', chain)
  redis.call('HINCRBY', tag .. 'h', chain, 1)
  redis.call('HSET', tag .. 'T', chain, new)
  if wid then
    redis.call('HSET', tag .. 'u', wid, new)
  end
  if unread > 0 then
    redis.call('RENAME', tag .. 'i:' .. run, tag .. 'i:' .. new)
  end
  line_up(new, class, priority ~= '0' and priority, order)
  compact(new, #ARGV[first + 3])
end
