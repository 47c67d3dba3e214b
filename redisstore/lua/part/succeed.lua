-- succeed puts the run that ARGV describes from first on into the place of one
-- that has ended: it follows that in its chain, takes over the workflow id and the
-- inbox, and is ready.
local function succeed(run, chain, wid, first, now, unread)
  local new, class, priority = add_run(first, now)
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
  make_ready(new, class, priority)
end
