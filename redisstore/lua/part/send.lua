-- send writes count records into the outbox of a run: ARGV holds from first on the
-- id, the receiver and the body of each. One that is there already stays.
local function send(run, first, count, now)
  for i = first, first + 3 * count - 1, 3 do
    local id = ARGV[i]
    if redis.call('HEXISTS', tag .. 'O:' .. run, id) == 0 then
      local order = string.format('%014x', redis.call('INCR', tag .. 'c'))
      redis.call('HSET', tag .. 'B:' .. run, id, ARGV[i + 2])
      write_record(run, id, order, '1', now, ARGV[i + 1])
    end
  end
end
