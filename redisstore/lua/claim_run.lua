-- ClaimRun grants one given run to a session.
-- It mirrors ClaimRun of package protocol.
-- A run that needs permits and is in no limiter queue gets them only while no other run waits for
-- them.
--
-- KEYS  1 the session  2 metadata  3 timers
-- ARGV  1 now  2 session  3 token  4 run
--
-- Returns {'ok', run}, {'expired'}, {'unknown'}, {'ended', status}, {'owned'} or {'queued'}.
--
-- Atomic, because the run leaves its queue state and gets its owner in one action. A second
-- execution with the same token returns the run that the first one granted.
--
-- Parts: tag intact clock header ready grant

local s = redis.call('HMGET', KEYS[1], 'i', 'r')
if not s[1] or s[2] then
  return {'expired'}
end
local run = ARGV[4]
local m = redis.call('HMGET', KEYS[2], 'H', 'p', 'c', 'F', 'r', 'g')
local header, queue_state, route = m[1], queue_state_of(m[1]), m[3]
if not queue_state then
  return {'unknown'}
elseif queue_state == '6' then
  return {'ended', string.byte(header, 50)}
elseif queue_state == '2' then
  if m[2] == ARGV[2] and string.sub(header, 10, 17) == ARGV[3] then
    return {'ok', granted(run, KEYS[2], header, route, m[6])}
  end
  return {'owned'}
elseif queue_state == '5' then
  return {'queued'}
end
local uses, has, waits
if flagged(header, is_limited) then
  -- Part: limit limiter_queue
  local l = uses_of(run)
  waits = not queues(l) and queue_state == '1'
  if waits then
    local limiter = limiter_of(limiter_id(route, l.text))
    if not limiter or limiter.place ~= l.place or not stand(limiter) and not too_heavy(limiter.uses) or not grant_waiting(limiter, run, l) then
      return {'queued'}
    elseif limiter_of(limiter.id) then -- the other runs of the queue must be examined by another claim
      wake(route)
    end
    uses, has = l.text, pack_has(l)
  elseif not queues(l) then
    if too_heavy(with_limits(l.uses)) then
      l.off = true
    else
      for _, u in ipairs(l.uses) do
        if not has_capacity(u.limit, u[3]) or not u[5] and in_front(u.limit) > 0 then
          return {'queued'}
        end
      end
      l.permits = true
      count(l.uses, 1, 0)
    end
    uses, has = l.text, pack_has(l)
  end
  if l.key and queue_state == '1' and l.place ~= '' then
    -- Part: share
    leave_fair_key(route, 0 - (m[5] or 0), 1, l.place)
  end
end
if waits then
  -- The run is not in its limiter queue here.
elseif queue_state == '1' then
  redis.call('ZREM', tag .. 'r:' .. route, m[2] .. run)
elseif queue_state == '3' then
  redis.call('ZREM', KEYS[3], run)
else
  redis.call('ZREM', tag .. 'b:' .. route, (m[4] or '') .. ' ' .. run)
end
redis.call('SADD', tag .. 'o:' .. ARGV[2], run)
return {'ok', grant(run, KEYS[2], ARGV[2], ARGV[3], header, route, 0, m[6], uses, has)}
