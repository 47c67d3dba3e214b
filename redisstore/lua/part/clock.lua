-- clock returns the time in milliseconds, as a number and as text: what the caller's
-- own clock shows, or the time of the server if the caller brings none ('0'). Text is
-- what is to be written: the server takes long to format a number.
local function clock(at)
  if at == '0' then
    local t = redis.call('TIME')
    at = t[1] .. string.sub('000000' .. t[2], -6, -4)
  end
  return tonumber(at), at
end
