-- Seize grants a given run to a session regardless of its queue state.
-- It mirrors Seize of package protocol.
--
-- KEYS  1 the session  2 metadata  3 timers
-- ARGV  1 now  2 session  3 token  4 run  5 'o' to take it even from its owner
--
-- Returns {'ok', run}, {'expired'}, {'unknown'}, {'ended', status} or {'owned'}.
--
-- Atomic, because the run leaves its queue state, or its owner under a new fence, and gets its new
-- owner in one action. A second execution with the same token returns the run that the first one
-- granted.
--
-- Parts: tag intact clock header ready leave grant

local s = redis.call('HMGET', KEYS[1], 'i', 'r')
if not s[1] or s[2] then
  return {'expired'}
end
local run = ARGV[4]
local m = redis.call('HMGET', KEYS[2], 'H', 'p', 'c', 'F', 'r', 'g', 'w')
local header, queue_state, route = m[1], queue_state_of(m[1]), m[3]
if not queue_state then
  return {'unknown'}
elseif queue_state == '6' then
  return {'ended', string.byte(header, 50)}
elseif queue_state == '2' then
  if m[2] == ARGV[2] and string.sub(header, 10, 17) == ARGV[3] then
    return {'ok', granted(run, KEYS[2], header, route, m[6])}
  elseif ARGV[5] ~= 'o' then
    return {'owned'}
  end
  leave_owner(run, m[2], false)
end
local uses, has, waits
if flagged(header, is_limited) then
  -- Part: limit limiter_queue
  local l = uses_of(run)
  waits = queue_state == '1' and not queues(l)
  if l.key and queue_state == '1' and l.place ~= '' then
    -- Part: share
    leave_fair_key(route, 0 - (m[5] or 0), 1, '')
  end
  local left = depart(run, l, waits and route, false)
  if not waits then
    l.place = ''
  end
  save_uses(run, l)
  settle(left)
  uses, has = l.text, pack_has(l)
end
if queue_state == '1' and not waits then
  redis.call('ZREM', tag .. 'r:' .. route, m[2] .. run)
elseif queue_state == '3' then
  redis.call('ZREM', KEYS[3], run)
elseif queue_state == '4' then
  redis.call('ZREM', tag .. 'b:' .. route, (m[4] or '') .. ' ' .. run)
elseif queue_state == '5' then
  redis.call('LREM', tag .. 'q:' .. (m[7] or ''), '1', run)
end
redis.call('SADD', tag .. 'o:' .. ARGV[2], run)
return {'ok', grant(run, KEYS[2], ARGV[2], ARGV[3], header, route, 0, m[6], uses, has)}
