-- Outbox reads records that need an action.
--
-- KEYS  1 records by the time of their next action
-- ARGV  1 now  2 maximum number of records  3 number of records to read at once
--
-- Returns {now, time of the next action of another record or '', record, …}, where a record is {its
-- sender, ID, phase, time of the phase, receiver, body}; then overwritten keys. The records in
-- overwritten keys are skipped and stay in the set.
--
-- Atomic, because the earlier records of the same sender and receiver must be known as of one
-- moment. The keys of the senders are built because the senders are found here.
--
-- Parts: tag intact clock outbox

local most, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local _, at = clock(ARGV[1])
local boxes, chosen = {}, {}

-- box returns the records of a run in order. Each outbox is read once.
local function box(run)
  if not boxes[run] then
    local all, records = intact('HGETALL', tag .. 'O:' .. run) or {}, {}
    for i = 1, #all, 2 do
      local order, phase, _, to = read_record(all[i + 1])
      table.insert(records, {order, phase, to})
    end
    table.sort(records, function(a, b) return a[1] < b[1] end)
    boxes[run] = records
  end
  return boxes[run]
end

-- free reports whether all earlier records of the sender and receiver are settled or chosen.
local function free(run, order, to)
  for _, r in ipairs(box(run)) do
    if r[1] >= order then
      break
    end
    if r[3] == to and r[2] ~= '3' and not chosen[r[1]] then
      return false
    end
  end
  return true
end

local answer, taken, left, offset = {at, ''}, 0, false, '0'
repeat
  local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at, 'LIMIT', offset, ARGV[3])
  offset = offset + #due
  table.sort(due)
  for _, member in ipairs(due) do
    local order, run, id = string.sub(member, 1, 14), string.sub(member, 15, 40), string.sub(member, 41)
    local _, phase, since, to = read_record(intact('HGET', tag .. 'O:' .. run, id) or '')
    if phase and (phase ~= '2' or free(run, order, to)) then
      if taken == most then
        left = true
        break
      end
      local body = intact('HGET', tag .. 'B:' .. run, id)
      if body ~= nil then
        taken, chosen[order] = taken + 1, true
        table.insert(answer, {run, id, phase, since, to, body or ''})
      end
    end
  end
until taken > 0 or left or #due < window
if left or redis.call('ZCOUNT', KEYS[1], '-inf', at) > offset then
  answer[2] = '1'
else
  answer[2] = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. at, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] or ''
end
return notified(answer)
