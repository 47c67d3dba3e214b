-- open_runs returns the key of the set of open runs of a route, with a parent or without.
local function open_runs(route, parent)
  return tag .. 'p:' .. (route or '') .. (parent and 'c' or 'r')
end

-- done_runs returns the key of the set of ended runs of a route with the status in a header: a
-- digit for each final status, 0 for any other status.
local function done_runs(route, parent, header)
  local status = header and string.byte(header, 50) or 0
  return tag .. 'f:' .. (route or '') .. (parent and 'c' or 'r') .. (status >= 3 and status <= 6 and status or 0)
end
