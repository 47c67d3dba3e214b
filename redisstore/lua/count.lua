-- Count returns the sizes of sets of runs, and the number of runs by status among the first runs of
-- each set.
--
-- KEYS  1 to n sets  n+1 a key that never exists
-- ARGV  1 to n maximum number of runs of the set to examine
--
-- Returns {for each set {number of runs in it, status as in the header, number of runs with it,
-- …}}. The status of a run with an unreadable header is 0.
--
-- Atomic, because the numbers of a partition are those of one moment: a run that moves from one set
-- to another is counted once. The keys of runs are built because the runs are found here.
--
-- Parts: tag

-- headers_of returns the headers of the first n runs of a set. If the server permits references to
-- other keys in SORT_RO, headers_of uses this one command, which takes half the time. A cluster
-- does not permit it, nor does a server if the user may not read all keys. It also fails for a
-- prefix that contains a star, because the star is part of the pattern.
local function headers_of(set, n)
  local headers = not string.find(tag, '*', 1, true)
    and redis.pcall('SORT_RO', set, 'BY', 'nosort', 'LIMIT', '0', n, 'GET', tag .. 'm:*->H')
  if headers and not headers.err then
    return headers
  end
  headers = {}
  for i, run in ipairs(redis.call('ZRANGE', set, '0', n - 1)) do
    local header = redis.pcall('HGET', tag .. 'm:' .. run, 'H') -- if the key has another type, the run has no header
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
