-- clock returns the time in milliseconds: what the caller's own clock shows, or
-- the time of the server if the caller brings none ('0').
local function clock(at)
  if at ~= '0' then
    return tonumber(at)
  end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
