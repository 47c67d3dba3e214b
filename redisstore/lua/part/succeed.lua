-- succeed puts the run that ARGV describes from first on into the place of one
-- that has ended: it follows that in its chain, takes over the workflow id and the
-- inbox, and is ready. followed: until when somebody follows the streams of the chain.
local function succeed(run, chain, wid, first, now, unread, followed)
  local new, class, head, priority = ARGV[first], ARGV[first + 1], ARGV[first + 4], ARGV[first + 5]
  head = with_flag(with_flag(head, has_mail, unread > 0), has_rest, followed)
  local order = add_run(first, now, head)
  redis.call('HSETNX', tag .. 'k', class, ARGV[first + 2])
  redis.call('HSET', tag .. 'm:' .. run, 'N', new)
  redis.call('HSET', tag .. 'm:' .. new, 'h', chain)
  if followed then
    redis.call('HSET', tag .. 'm:' .. new, 'Y', followed)
  end
  redis.call('HINCRBY', tag .. 'h', chain, 1)
  redis.call('HSET', tag .. 'T', chain, new)
  if wid ~= '' then
    redis.call('HSET', tag .. 'u', wid, new)
  end
  if unread > 0 then
    redis.call('RENAME', tag .. 'i:' .. run, tag .. 'i:' .. new)
  end
  line_up(new, class, priority ~= '0' and priority, order)
  compact(new, #ARGV[first + 3])
end
