-- prepare_records stores the bodies of count records that a run will send, and returns the order
-- number of each. From index first on, ARGV contains the ID, the receiver and the body of each. A
-- record that exists already or occurs twice is kept and gets no second order number. A body
-- without its record is invisible; if the script fails after this, the next attempt writes it
-- again. The second result is whether the outbox of the run is empty.
local function prepare_records(run, first, count)
  local orders, prepared, empty = {}, {}, redis.call('HLEN', tag .. 'O:' .. run) == 0
  for i = first, first + 3 * count - 1, 3 do
    if not prepared[ARGV[i]] and (empty or redis.call('HEXISTS', tag .. 'O:' .. run, ARGV[i]) == 0) then
      prepared[ARGV[i]] = true
      orders[i] = string.format('%014x', redis.call('INCR', tag .. 'c'))
      redis.call('HSET', tag .. 'B:' .. run, ARGV[i], ARGV[i + 2])
    end
  end
  return orders, empty
end
