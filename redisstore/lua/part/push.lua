-- forget removes a few item IDs that were accepted more than a day ago. It keeps all IDs that are
-- not older than the oldest unread item, because their items are in the inbox.
local function forget(seen, inbox, now)
  local limit = now - 86400000
  local old = redis.call('ZCOUNT', seen, '-inf', string.format('(%.0f', limit))
  if old == 0 then
    return
  end
  local i, at = 0, kept
  while at >= kept do
    local item = redis.call('LINDEX', inbox, i)
    at = item and tonumber(redis.call('ZSCORE', seen, item_id(item)) or kept) or limit
    i = i + 1
  end
  if at < limit then
    old = redis.call('ZCOUNT', seen, '-inf', string.format('(%.0f', at))
  end
  if old > 0 then
    redis.call('ZREMRANGEBYRANK', seen, '0', math.min(old, 100) - 1)
  end
end

-- push accepts an item that has not been seen, and adds it to inbox and seen in one action. It
-- makes a parked run ready and notifies the owner of an owned one. If urgent, a run without permits
-- continues without them, now or once it is ready; a run that collects starts is made ready only by
-- urgent items. keep is set if the sender may send the item again, which the end of the run must
-- take into account.
local function push(run, id, item, now, keep, urgent)
  local meta = tag .. 'm:' .. run
  local m = redis.call('HMGET', meta, 'H', 'p', 'h', 'c', 'r', 'k')
  local header, queue_state = m[1], queue_state_of(m[1])
  local inbox, seen = tag .. 'i:' .. run, tag .. 's:' .. (m[3] or run)
  redis.call('RPUSH', inbox, item)
  redis.call('ZADD', seen, keep and now + kept or now, id)
  forget(seen, inbox, now)
  local flags = keep and has_unread + has_rest or has_unread
  if queue_state and bit.band(string.byte(header, 51), flags) ~= flags then
    header = with_flag(header, flags, true)
    redis.call('HSET', meta, 'H', header)
  end
  local collects = m[6] and queue_state and string.sub(header, 18, 25) == nobody
  if collects and urgent then -- a run that only ends would lose the start that joins it
    -- Part: collect
    stop_collecting(run, m[6])
  end
  local limited = urgent and queue_state and queue_state ~= '2' and flagged(header, is_limited)
  if limited and queue_state ~= '1' then
    -- Part: intact limit
    forgo(run)
  end
  if queue_state == '3' and (urgent or not collects) then
    make_ready(run, header, m[4], m[5])
    redis.call('ZREM', tag .. 't', run)
  elseif queue_state == '2' then
    redis.call('HSET', tag .. 'a:' .. m[2], run, '1')
    redis.call('PUBLISH', tag .. 'mail:' .. m[2], '')
  elseif limited and queue_state == '1' then
    -- Part: intact limit limiter_queue join
    if not queues(uses_of(run)) then
      call_off(run, header, m[4], m[5])
    end
  end
end
