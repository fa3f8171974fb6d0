# Writes images_source: every image of HOLDFAST_IMAGES as bytes of the library, and their table.
set(bytes "")
set(names "")
set(rows "")
foreach(image ${HOLDFAST_IMAGES})
  get_filename_component(name ${image} NAME_WE)
  string(APPEND bytes "asm(R\"(.pushsection .rodata
  .balign 16
holdfast_image_${name}:
  .incbin \"${image}\"
holdfast_image_${name}_end:
  .popsection)\");
extern \"C\" __attribute__((visibility(\"hidden\"))) const std::byte holdfast_image_${name}[];
extern \"C\" __attribute__((visibility(\"hidden\"))) const std::byte holdfast_image_${name}_end[];
")
  string(APPEND rows "      {\"${name}\", {holdfast_image_${name}, holdfast_image_${name}_end}},\n")
endforeach()
set(body "  return {};\n")
if(rows)
  set(body "  static const KernelImage kImages[] = {\n${rows}  };\n  return kImages;\n")
endif()
file(CONFIGURE OUTPUT ${images_source} @ONLY CONTENT "// Made by cmake/kernel_images.cmake.
#include \"device/kernel.h\"

@bytes@
namespace holdfast::device {

std::span<const KernelImage> kernel_images() {
@body@}

}  // namespace holdfast::device
")
