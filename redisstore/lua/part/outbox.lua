-- write_record stores the state of a record in the outbox of a run: its order number among all
-- records, the phase, the time of the phase, and the receiver. A fresh record is due for transfer
-- at once. If the index of records by time was overwritten, the script that reads it reports that,
-- and a repair writes it again from this state.
local function write_record(run, id, order, phase, since, to, at)
  redis.call('HSET', tag .. 'O:' .. run, id, string.format('%s %s %.0f %s', order, phase, since, to))
  redis.pcall('ZADD', tag .. 'D', phase == '1' and 1 or at, order .. run .. id)
end

-- read_record returns the order number, the phase, the time of the phase, and the receiver.
local function read_record(record)
  return string.match(record, '^(%x+) (%d) (%d+) (.*)$')
end
