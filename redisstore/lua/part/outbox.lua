-- write_record keeps what the outbox of a run knows of a record: its place among
-- all records, the phase, since when, and the receiver. A fresh record is to be
-- carried over at once. If the records by time were overwritten, which is told by whoever
-- reads them, a repair writes them again from this.
local function write_record(run, id, order, phase, since, to, at)
  redis.call('HSET', tag .. 'O:' .. run, id, string.format('%s %s %.0f %s', order, phase, since, to))
  redis.pcall('ZADD', tag .. 'D', phase == '1' and 1 or at, order .. run .. id)
end

-- read_record returns the place, the phase, since when, and the receiver.
local function read_record(record)
  return string.match(record, '^(%x+) (%d) (%d+) (.*)$')
end
