-- ListReady returns the first ready runs of several routes. It changes nothing.
--
-- KEYS  1 and on: ready runs of each route
-- ARGV  1 maximum number of runs
--
-- Returns {number of runs, run, …, overwritten key, …}. The runs are in the order in which a claim
-- would examine them.
--
-- Atomic, because the runs of several routes must be in the order of one moment. The keys of limiter
-- queues are built because the queues are found here.
--
-- Parts: tag intact

local limit, all = tonumber(ARGV[1]), {}
for _, set in ipairs(KEYS) do
  local found = intact('ZRANGE', set, '0', limit - 1, 'WITHSCORES') or {}
  for i = 1, #found, 2 do
    all[#all + 1] = {tonumber(found[i + 1]), found[i]}
  end
end
table.sort(all, function(a, b)
  if a[1] ~= b[1] then
    return a[1] < b[1]
  end
  return a[2] < b[2]
end)
local runs = {}
for i = 1, math.min(#all, limit) do
  local run = string.sub(all[i][2], 15)
  if string.sub(run, 1, 1) == '~' then -- the first run of a limiter queue takes the place of the queue
    run = string.sub((intact('ZRANGE', tag .. 'P:' .. string.sub(run, 2), '0', '0') or {})[1] or '', 15)
  end
  if run ~= '' then
    runs[#runs + 1] = run
  end
end
local answer = {#runs}
for _, run in ipairs(runs) do
  answer[#answer + 1] = run
end
return notified(answer)
