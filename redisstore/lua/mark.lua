-- Mark moves records of the outbox to their next phase, and delivers refusals to their senders.
-- It mirrors Mark of package protocol.
--
-- KEYS  1 records by the time of their next action
-- ARGV  1 now  2 how long a record stays in a phase  3 and on: for each mark the sender, the
--       record, the phase in which it was read, 'u' if the receiver is unknown, the refusal as an
--       item, or '', and the deadline, or '0'
--
-- Returns how many records were still in the phase in which they were read. It fails with LOST at a
-- sender that cannot receive the refusal before it is repaired: the marks after it are not
-- executed.
--
-- Atomic, because a refusal must be in the inbox of the sender once its record has the answered
-- phase. A record in another phase than the one in which it was read was moved by another process
-- or by an earlier attempt. The keys of the senders are built: a mark is useful only for its
-- record.
--
-- Parts: tag intact clock header ready item kept push remembered reschedule outbox lost

local now, horizon, moved = clock(ARGV[1]), tonumber(ARGV[2]), 0

-- take_back makes an outbox record fresh if an earlier record of the same sender and receiver
-- exists in any phase. It also makes all earlier answered records of the two fresh. It reports
-- whether there is an earlier record.
local function take_back(run, phase, order, to)
  local answered, before = {}, false
  if phase == '3' then
    return false
  end
  local all = intact('HGETALL', tag .. 'O:' .. run) or {}
  for i = 1, #all, 2 do
    local o, is, _, receiver = read_record(all[i + 1])
    if receiver == to and o <= order then
      before = before or o < order
      if is == '2' then
        table.insert(answered, {all[i], o})
      end
    end
  end
  for _, r in ipairs(before and answered or {}) do
    write_record(run, r[1], r[2], '1', now, to)
  end
  return before
end

-- tell adds a refusal to the inbox of the sender, unless the sender has ended or has received it
-- before. It returns false if the sender must be repaired first.
local function tell(run, item)
  local m = intact('HMGET', tag .. 'm:' .. run, 'H', 'h')
  if not m or not m[1] and lost(run) then
    return false
  end
  local id, queue_state = item_id(item), queue_state_of(m[1])
  if queue_state and queue_state ~= '6' and not redis.call('ZSCORE', tag .. 's:' .. (m[2] or run), id) then
    push(run, id, item, now)
  end
  return true
end

-- forget_record removes a record from the outbox of a run.
local function forget_record(run, id, order)
  redis.call('HDEL', tag .. 'O:' .. run, id)
  intact('HDEL', tag .. 'B:' .. run, id)
  redis.call('ZREM', KEYS[1], order .. run .. id)
  reschedule(run)
end

for i = 3, #ARGV, 6 do
  local run, id, phase, refusal = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4]
  local record = intact('HGET', tag .. 'O:' .. run, id)
  local order, is, _, to = read_record(record or '')
  local late = ARGV[i + 5] ~= '0' and now > tonumber(ARGV[i + 5]) and (ARGV[i + 3] == 'u' or refusal ~= '')
  if is == phase and not late then
    moved = moved + 1
    if ARGV[i + 3] ~= 'u' or not take_back(run, phase, order, to) then
      if refusal ~= '' and not tell(run, refusal) then
        return lost_error(run) -- the record stays in its phase and is marked later
      end
      if phase == '3' then
        forget_record(run, id, order)
      else
        write_record(run, id, order, phase == '1' and '2' or '3', now, to, now + horizon)
      end
    end
  end
end
return moved
