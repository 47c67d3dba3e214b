-- retire ends a run of a route that has no owner, and schedules its purge at the given time. held
-- is set if the purge is held back by anything except the outbox records of the run and the items
-- that it remembers until Confirm. retire removes only data for which the header has a flag.
-- followed is set if the streams of the run are followed.
local function retire(run, header, route, parent, created, now, at, held, followed)
  local meta = tag .. 'm:' .. run
  redis.call('HSET', meta, 'H', with_flag(moved(header, '6'), has_unread + is_watched + has_rest + has_incompatible, false), 'p', now)
  if followed or flagged(header, is_watched + has_incompatible) then
    redis.call('HDEL', meta, 'y', 'Y', 'F')
  end
  if flagged(header, has_rest) then
    redis.call('DEL', tag .. 'n:' .. run)
  end
  intact('ZREM', open_runs(route, parent), run)
  intact('ZADD', done_runs(route, parent, header), created, run)
  held = held or redis.call('EXISTS', tag .. 'O:' .. run) == 1 or flagged(header, has_rest) and remembers(run)
  intact('ZADD', tag .. (held and 'G' or 'd'), at, run)
end

-- start_next makes an ended run the last ended run of its workflow ID. It makes the next run that
-- is queued for the workflow ID active and ready.
local function start_next(run, wid)
  if wid == '' then
    return
  end
  local active = intact('HGET', tag .. 'u', wid)
  if active and active ~= run then -- this run was queued and not active
    return
  end
  intact('HSET', tag .. 'v', wid, run)
  if not active then
    return
  end
  local following = intact('LPOP', tag .. 'q:' .. wid)
  if not following then
    redis.call('HDEL', tag .. 'u', wid)
    return
  end
  redis.call('HSET', tag .. 'u', wid, following)
  local h = intact('HMGET', tag .. 'm:' .. following, 'H', 'c', 'r') or {}
  if queue_state_of(h[1]) then
    make_ready(following, h[1], h[2], h[3], string.format('%014x', intact('INCR', tag .. 'c') or 0))
  end
end
