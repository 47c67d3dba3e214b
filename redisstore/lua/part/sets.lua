-- open_runs returns the key of the set of open runs of a route. parent selects the runs with a
-- parent.
local function open_runs(route, parent)
  return tag .. 'p:' .. (route or '') .. (parent and 'c' or 'r')
end

-- done_runs returns the key of the set of ended runs of a route, for the status in a header. The
-- key ends with a digit for each final status, and with 0 for any other status.
local function done_runs(route, parent, header)
  local status = header and string.byte(header, 50) or 0
  return tag .. 'f:' .. (route or '') .. (parent and 'c' or 'r') .. (status >= 3 and status <= 6 and status or 0)
end
