-- clock returns the time in milliseconds, as a number and as text: what the caller's
-- own clock shows, or the time of the server if the caller brings none ('0'). Text is
-- what is to be written: the server takes long to format a number. It is one time for the whole script.
local server_time
local function clock(at)
  if at == '0' then
    if not server_time then
      local t = redis.call('TIME')
      server_time = t[1] .. string.sub('000000' .. t[2], -6, -4)
    end
    at = server_time
  end
  return tonumber(at), at
end
