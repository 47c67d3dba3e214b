-- Count tells how many runs are in sets, and how many of the first ones of each have which status.
--
-- KEYS  1 to n sets  n+1 never there
-- ARGV  1 to n how many runs of the set to look at, at most
--
-- Returns {of each set {how many runs are in it, status as in the header, how many have it, …}}. Of a run whose
-- header cannot be read the status is 0.
--
-- Atomic, because the numbers of a partition are those of one moment: a run that moves from one set to
-- another is counted once. The keys of runs are built: they are found here.
--
-- Parts: tag

-- headers_of returns the headers of the first n runs of a set. One command, which takes half the time, has them where the server
-- puts names of keys together: in a cluster it does not, nor for a user who may not read all keys, and a prefix with a star is no pattern.
local function headers_of(set, n)
  local headers = not string.find(tag, '*', 1, true)
    and redis.pcall('SORT_RO', set, 'BY', 'nosort', 'LIMIT', '0', n, 'GET', tag .. 'm:*->H')
  if headers and not headers.err then
    return headers
  end
  headers = {}
  for i, run in ipairs(redis.call('ZRANGE', set, '0', n - 1)) do
    local header = redis.pcall('HGET', tag .. 'm:' .. run, 'H') -- of a key of another kind there is none
    headers[i] = type(header) == 'string' and header
  end
  return headers
end

local answer = {}
for i, most in ipairs(ARGV) do
  local counts, statuses = {redis.call('ZCARD', KEYS[i])}, {}
  if most ~= '0' and counts[1] > 0 then
    for _, header in ipairs(headers_of(KEYS[i], tonumber(most))) do
      local status = header and #header == 63 and string.byte(header, 50) or 0
      statuses[status] = (statuses[status] or 0) + 1
    end
  end
  for status, n in pairs(statuses) do
    counts[#counts + 1], counts[#counts + 2] = status, n
  end
  answer[i] = counts
end
return answer
