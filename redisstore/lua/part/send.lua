-- send writes the outbox records that prepare_records has prepared. It returns one digit for each
-- record: '1' if it is new, '0' if it existed before.
local function send(run, first, count, now, orders)
  local new = {}
  for i = first, first + 3 * count - 1, 3 do
    if orders[i] then
      write_record(run, ARGV[i], orders[i], '1', now, ARGV[i + 1])
    end
    new[#new + 1] = orders[i] and '1' or '0'
  end
  return table.concat(new)
end
