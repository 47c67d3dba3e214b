-- send writes the records that prepare_records has prepared.
local function send(run, first, count, now, orders)
  for i = first, first + 3 * count - 1, 3 do
    if orders[i] then
      write_record(run, ARGV[i], orders[i], '1', now, ARGV[i + 1])
    end
  end
end
