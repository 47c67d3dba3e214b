-- prepare_records stores the bodies of count records that a run will send, and returns
-- where each comes among all: ARGV holds from first on the id, the receiver and the body of
-- each. One that is there already, or comes twice, stays, and has no second place. Nobody sees a body without its
-- record; if the script fails now, the next try writes it again. It also returns whether the outbox of the run is empty.
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
