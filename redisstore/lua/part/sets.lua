-- open_runs names the set of the open runs of a route, with a parent or without.
local function open_runs(route, parent)
  return tag .. 'p:' .. (route or '') .. (parent and 'c' or 'r')
end

-- done_runs names the set of its done runs that have the status of a header: a digit says which of those
-- with which runs end, 0 another one.
local function done_runs(route, parent, header)
  local status = header and string.byte(header, 50) or 0
  return tag .. 'f:' .. (route or '') .. (parent and 'c' or 'r') .. (status >= 3 and status <= 6 and status or 0)
end
